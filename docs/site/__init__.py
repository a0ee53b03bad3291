"""The documentation as a site: ``python -m docs.site`` builds it into ``build/site``, with broken links as errors.

==================  ====================================================================================
`__main__`          stages the pages, builds the site with Zensical, checks its links
`staging`           the repository's pages as the site's: links, formulas, figures, examples
`examples`          runs the examples of a page, and draws their charts
`playground`        a model that scores in the page, by ``playground.js``
`built_links`       finds links, anchors and files that a built site lacks
`docstrings`        griffe's extension: docstrings made at run time, names in them as links
`figures`           draws the figures of ``docs/mathematics.md``
``zensical.toml``   the site's settings and navigation
``site.css``        its style, and ``site.js`` what else all pages have
==================  ====================================================================================
"""
