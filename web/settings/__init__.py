"""The pages of the settings: keys and preferences, changes, doctor, installation."""
