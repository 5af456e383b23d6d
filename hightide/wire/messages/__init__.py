"""The generated messages: one module per API, one per log. Import a module, never this package."""
