"""What the package stands on: directories, texts, threads, programs, and files that nobody trusts."""
