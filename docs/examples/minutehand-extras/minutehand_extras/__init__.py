"""An example of a package that extends Minutehand."""
