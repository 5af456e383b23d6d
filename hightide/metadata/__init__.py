"""What the cluster agreed on: records, the immutable image, the controller that makes records of commands. Pure."""
