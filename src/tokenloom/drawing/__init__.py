"""The one exact way a token is drawn; uniform numbers; truncation."""
