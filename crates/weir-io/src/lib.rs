//! Where packets come from and where answers go: capture files in, rows and capture files out.
