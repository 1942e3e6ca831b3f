"""The reconciler: watch caches, the read index, the ledger, apply and prune, deletion."""
