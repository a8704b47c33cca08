"""An encyclopedia of a country that does not exist: long articles, linked with each other."""
