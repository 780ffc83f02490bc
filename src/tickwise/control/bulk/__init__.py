"""Operations over many things: asked for once, carried out page by page.

    filter ──► operations: counted, stored ──► a scheduler ──► pages: one page, repeatable ──► progress on record

`removal` carries out the removal of a namespace in the same way.

Invariant: a page that is carried out twice is carried out once.
"""
