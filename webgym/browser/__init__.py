"""The browser server: many isolated sessions in a few Chromium processes, over HTTP."""
