"""One module per API, named after it: the directory is the list of what the broker serves.

Each module's first line gives the API key and its versions, and what is left out. ``groups``, ``admin``,
``new_leaders``, ``fetching`` and ``cold_reads`` are what some of them share.
"""
