"""Every figure in the documents, each as a ratio to something measured in the same run."""
