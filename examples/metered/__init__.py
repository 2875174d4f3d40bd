"""APIs that charge by what a call turns out to cost, as small HTTP servers."""
