"""The data of a small app: versions and columns, refresh, publish, roll back."""
