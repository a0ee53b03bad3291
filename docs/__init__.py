"""The documentation: pages in Markdown, notebooks, and `docs.site`, which builds a site of them."""
