from kernel_matrix.kit import array, operator


@operator(x=array("tokens", 8), outputs={"out": array("tokens", 8)}, rows="tokens", writes=True)
def test_double(x):
    return 2 * x
