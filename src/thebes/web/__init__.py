"""Pages that people see in a browser. One frame, one stylesheet, one way of drawing; a file for each page's routes."""
