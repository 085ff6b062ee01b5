"""Old pages out of MongoDB into WARC files, and back: docs/storage.md tells how to use it.

============  =========================================================================================
`records.py`  a page as the records of a WARC file, and back; `index.py`: where in its file each page is
`place.py`    the folder of the files: local, or whatever else fsspec knows
`move.py`     pages into files, read back, and only then out of MongoDB
`lookup.py`   pages found in the archive, and put back
============  =========================================================================================
"""
