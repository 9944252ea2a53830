"""What doctor looks at: examine runs all of checks/, each of which yields findings."""
