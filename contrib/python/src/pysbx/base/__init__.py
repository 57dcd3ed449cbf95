"""The foundation: directories, texts, threads, programs, and files that are not trusted."""
