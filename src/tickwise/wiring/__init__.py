"""The composition root: settings in, running roles out. The only package that names an adapter.

    processes    each role as a process, or all of them in one (`up`)
    runtime      what every role stands on, made from the settings
    serving      the API's socket and what a start tells people
    doctor       what is wrong with a set-up
    history      whether a live database's own records keep every promise
    simulation   the scheduler on a clock that is moved, over a store in memory

Nothing is imported here: a simulation needs no web framework, and its start is waited for.
"""
