"""An S3 bucket as a store of blobs."""
