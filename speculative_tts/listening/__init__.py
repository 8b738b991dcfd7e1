"""Listening tests: the page that raters see, the server that collects answers, their scores."""
