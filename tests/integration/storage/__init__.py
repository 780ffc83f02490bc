"""Scripts, outputs and artefacts in a real S3 server."""
