"""Tables, figures and the page, from scored runs."""
