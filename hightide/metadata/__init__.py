"""What the cluster agreed on: records, the immutable image, and the controller that turns commands into records. Pure."""
