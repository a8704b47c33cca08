"""The browser server: many isolated sessions in few Chromium processes, over HTTP."""
