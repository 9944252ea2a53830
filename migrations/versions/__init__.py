"""The changes of the schema, in their order."""
