"""A collection as a file for other programs, in constant memory: docs/storage.md tells how to use it.

=============  ====================================================================================
`documents.py`  what is exported: a collection's documents, which fields of them, since when
`values.py`     values of BSON as JSON, as text, and as what Parquet has
`columns.py`    the columns of a table, found by a pass over the documents
`formats.py`    the writers: JSON Lines, CSV; `parquet.py`: Parquet
=============  ====================================================================================
"""
