//! The engine on a real Docker daemon. Without one these tests fail, and say so; none is skipped.
//!
//! They need the images `belljar/bash:latest` and `belljar/python:latest` (`belljar images build`); every other image is
//! made by the test itself and removed again. They touch nothing on the daemon that they did not make.

mod gone;
mod guest;
mod hostile;
mod rows;
mod seccomp;
mod support;
