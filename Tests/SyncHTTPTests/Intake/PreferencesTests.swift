import HTTPTypes
import Testing

@testable import SyncHTTP

@Suite("Prefer")
struct PreferencesTests {
    private func preferences(_ text: String) -> Preferences {
        Preferences(text, longestWait: .seconds(60))
    }

    @Test(arguments: [
        ("handling=strict", "handling=strict"),
        ("handling=lenient", "handling=lenient"),
        ("Handling=STRICT", "handling=strict"),
        ("handling=\"strict\"", "handling=strict"),
        ("handling = strict", "handling=strict"),
        ("wait=10", "wait=10"),
        ("wait=\"10\"", "wait=10"),
        ("wait=0", "wait=0"),
        ("handling=strict, wait=5", "handling=strict, wait=5"),
        ("wait=5,handling=lenient", "handling=lenient, wait=5"),
        ("respond-async, wait=5", "wait=5"),
        ("wait=5; foo=bar; baz=\"a, b\", handling=strict", "handling=strict, wait=5"),
        ("foo=\"handling=strict, wait=3\", wait=2", "wait=2"),
        (",, wait=2 ,", "wait=2"),
    ]
    )
    func `applies supported preferences`(text: String, applied: String) {
        #expect(preferences(text).applied == applied)
    }

    @Test(arguments: [
        "", ",", "=", ";", "\"", "handling", "handling=", "handling=maybe", "wait", "wait=-1", "wait=1.5",
        "wait=soon",
        "wait=99999999999999999999", "return=minimal", "handling=\"strict", "=strict",
    ]
    )
    func `ignores invalid preferences`(text: String) {
        let found = preferences(text)
        #expect(found.wait == nil)
        #expect(found.isStrict == nil || text == "handling=\"strict")
    }

    @Test
    func `uses the first of two values of a preference`() {
        #expect(preferences("wait=1, wait=2").wait == .seconds(1))
        #expect(preferences("handling=lenient, handling=strict").isStrict == false)
        #expect(preferences("wait=soon, wait=2").wait == nil)
    }

    @Test
    func `several fields form one list`() {
        var headers = HTTPFields()
        headers.append(HTTPField(name: .prefer, value: "handling=strict"))
        headers.append(HTTPField(name: .prefer, value: "wait=7"))
        #expect(Preferences(headers, longestWait: .seconds(60)).applied == "handling=strict, wait=7")
        #expect(Preferences([:], longestWait: .seconds(60)).applied == nil)
    }

    @Test
    func `shortens a long wait and reports the applied one`() {
        #expect(preferences("wait=3600").applied == "wait=60")
    }
}
