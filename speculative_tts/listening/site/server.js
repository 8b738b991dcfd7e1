// Where answers are sent; sst-listen serve puts its own address here.
window.COLLECT = null;
