"""What costs are measured with, and what is counted from them."""
