import pytest

from parcel.invoice import Invoice, Line


def test_an_empty_invoice_costs_nothing():
    assert Invoice().total == 0


def test_lines_add_up_with_tax():
    invoice = Invoice().add(Line("letter", 390)).add(Line("box", 1090, count=2))
    assert (invoice.net, invoice.tax, invoice.total) == (2570, 488, 3058)


@pytest.mark.parametrize(("count", "percent"), [(9, 0), (10, 5), (20, 10), (50, 15)])
def test_many_parcels_are_cheaper(count, percent):
    assert Invoice().add(Line("letter", 390, count=count)).discount_percent == percent


def test_a_discount_lowers_the_net():
    assert Invoice().add(Line("letter", 390, count=10)).net == 3705


def test_a_line_needs_a_parcel():
    with pytest.raises(ValueError, match="at least one"):
        Invoice().add(Line("letter", 390, count=0))
