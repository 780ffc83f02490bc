"""The pages: what people look at before they read a log. Server-rendered; htmx renews parts of a page.

    browser ──► Pages ──► session, permissions ──► view ──► control         (as the API, with the same principal)
                  │                                  └────► template ──► whole page, or one block of it
                  └─ /static: names with a hash of the content

views      one module for each subject: ask control, hand values to a template
templates  HTML; all that comes from outside is escaped (`templating`)
static     our style sheet and scripts; `static/vendor` is copied from npm at set-up

Invariant: no page does what the API would refuse: each view calls control with the caller's principal, and control
checks. A page works without JavaScript; a script makes it live.
"""
