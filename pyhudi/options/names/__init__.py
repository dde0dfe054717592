"""The `hoodie.*` option names, one module an area; `options.registry` joins them."""
