"""Run listening tests: the page that raters see, the server for answers, and the scores."""
