"""Man pages and completion files, made from the command line's own help."""
