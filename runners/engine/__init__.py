"""What is compiled: experiments, how they are played, and who learns from them."""
