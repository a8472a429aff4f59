"""tandem timeline: what the model predicts of the three schedules, and the files it writes. Against a GPU the same is asked by the GPU suite."""
import json
import xml.etree.ElementTree as xml

import pytest


@pytest.fixture(scope="module")
def timeline(tmp_path_factory):
    import conftest
    folder = tmp_path_factory.mktemp("timeline")
    tandem = conftest.Tandem(folder)
    svg, trace = folder / "timeline.svg", folder / "timeline.json"
    found = tandem.ok("timeline", "--backend", "model", "--json", "--svg", svg, "--trace", trace).json
    return found, svg, trace, tandem


def test_ping_pong_is_predicted_to_be_the_fastest(timeline):
    assert timeline[0]["order"] == "ping-pong, then two warpgroups, then in order"


def test_the_tensor_core_is_never_busier_than_always(timeline):
    for schedule in timeline[0]["schedules"]:
        assert 0.2 < schedule["total_tensor_share"] <= schedule["step_tensor_share"] <= 1.0, schedule["name"]


def test_the_same_problem_is_predicted_the_same(timeline):
    again = timeline[3].ok("timeline", "--backend", "model", "--json").json
    assert again["schedules"] == timeline[0]["schedules"]


def test_each_role_notes_its_events_in_the_order_of_time(timeline):
    for schedule in timeline[0]["schedules"]:
        last = {}
        for role, _, cycle in schedule["events"]:
            assert cycle >= last.get(role, 0)
            last[role] = cycle
        assert set(last) == set(range(schedule["spec"]["consumer_warpgroups"] + 1))


def test_the_picture_shows_every_schedule(timeline):
    found, svg, _, _ = timeline
    texts = [element.text for element in xml.parse(svg).getroot().iter() if element.tag.endswith("text")]
    for schedule in found["schedules"]:
        assert schedule["name"] in texts


def test_the_trace_holds_every_step_of_every_warpgroup(timeline):
    found, _, trace, _ = timeline
    events = json.loads(trace.read_text())["traceEvents"]
    bars = [event for event in events if event["ph"] == "X"]
    assert all(event["dur"] >= 0 for event in bars)
    units = {(event["pid"], event["tid"]) for event in events if event["ph"] == "M" and event["args"]["name"] == "some softmax"}
    softmaxes = sum(event["name"].startswith("softmax") and (event["pid"], event["tid"]) not in units for event in bars)
    # 256 queries, 1,024 keys in steps of 128: 64 rows each
    assert softmaxes == len(found["schedules"]) * 256 // 64 * 1024 // 128


def test_what_it_cannot_draw_is_refused(timeline):
    tandem = timeline[3]
    tandem("timeline", "--backend", "model", "--block", 7).refused("--block", "7")
    assert tandem("timeline", "--backend", "cpu").code == 2
