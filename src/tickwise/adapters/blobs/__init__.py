"""Scripts, outputs and artefacts in a local folder, in memory or in an S3 bucket, and the output that waits on a disk.

stored.py      `Blobs` over any store of obstore, and the view of an executor
addresses.py   from `blobs_url` to a store
s3/            an S3 bucket: its address, its credentials, its failures in words
spool/         an executor's output while the store is away, and its compaction
"""

from tickwise.adapters.blobs.addresses import BlobAccess, folder_of, open_blobs
from tickwise.adapters.blobs.stored import OutputBlobs, StoredBlobs

__all__ = ["BlobAccess", "OutputBlobs", "StoredBlobs", "folder_of", "open_blobs"]
