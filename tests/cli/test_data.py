from commands import run


def test__data_list__names__are_there():
    output = run("data", "list").output
    assert "digits" in output
    assert "mnist" in output


def test__data_fetch__embedded_data__has_nothing_to_download():
    assert "nothing to download" in run("data", "fetch", "digits").output


def test__data_fetch__unknown_name__is_an_error():
    assert "known are" in run("data", "fetch", "nonsense", code=2).stderr
