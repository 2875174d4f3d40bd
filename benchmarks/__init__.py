"""Every figure the documents mention, each as a ratio to something measured in the same run."""
