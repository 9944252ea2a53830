"""What doctor looks at: examine goes through checks/, each of which gives findings."""
