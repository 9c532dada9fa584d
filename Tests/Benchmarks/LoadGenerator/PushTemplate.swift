/// What a push was made of; enough to make the same bytes again.
struct Push {
    /// The device, as an index into the devices.
    var device: Int
    /// Where its UUIDs come from.
    var seed: UInt64
    /// The sequence number of its first mutation.
    var firstNumber: UInt64
}

/// The body of a push: bytes in which UUIDs and numbers are overwritten in place, so a push costs no allocation and
/// no JSON writer.
struct PushTemplate {
    /// A number of sixteen digits: microseconds since 1970 have as many until the year 2286.
    private static let numberWidth = 16
    private static let emptyUUID = "00000000-0000-4000-8000-000000000000"

    let bytes: [UInt8]
    let mutations: Int

    private let writer = TextWriter()
    private let deviceOffset: Int
    private let firstOffset: Int
    /// From one mutation to the next.
    private let stride: Int
    /// Where in a mutation its UUIDs stand: id, local id, contact, idempotency key.
    private let uuidOffsets: [Int]
    private let numberOffset: Int

    /// - Parameter createdAt: the time that the mutations claim to be from, in RFC 3339.
    init(mutations: Int, createdAt: String) {
        var mutation = Marked()
        mutation.append(#"{"id":""#, mark: Self.emptyUUID)
        mutation.append(#"","operation":"create","entity_type":"activity","local_id":""#, mark: Self.emptyUUID)
        mutation.append(
            #"","endpoint":"/api/v1/activities","payload":{"title":"hello world","contact_id":""#,
            mark: Self.emptyUUID
        )
        let notes = String(repeating: "lorem ipsum ", count: 7)
        mutation.append(
            #"","amount":12.5,"notes":"\#(notes)","tags":["a","b"],"done":false},"idempotency_key":""#,
            mark: Self.emptyUUID
        )
        mutation.append(#"","sequence_number":"#, mark: String(repeating: "0", count: Self.numberWidth))
        mutation.append(#","dependency_ids":[],"priority":10,"created_at":"\#(createdAt)"}"#)

        var body = Marked()
        body.append(#"{"device_id":""#, mark: Self.emptyUUID)
        body.append(#"","mutations":["#)
        deviceOffset = body.marks[0]
        firstOffset = body.bytes.count
        stride = mutation.bytes.count + 1
        uuidOffsets = Array(mutation.marks[..<4])
        numberOffset = mutation.marks[4]

        let list = Array(repeating: mutation.bytes, count: mutations).joined(separator: [UInt8(ascii: ",")])
        bytes = body.bytes + list + Array("]}".utf8)
        self.mutations = mutations
    }

    /// Turns a copy of ``bytes`` into this push.
    func fill(_ body: UnsafeMutablePointer<UInt8>, with push: Push, device: UUIDBits) {
        var random = Random(seed: push.seed)
        writer.writeUUID(device.high, device.low, at: body + deviceOffset)
        uuidOffsets.withUnsafeBufferPointer { offsets in
            for index in 0..<mutations {
                let mutation = body + (firstOffset &+ index &* stride)
                for offset in offsets { writer.writeUUID(random.next(), random.next(), at: mutation + offset) }
                let number = push.firstNumber &+ UInt64(truncatingIfNeeded: index)
                writer.writeNumber(number, width: Self.numberWidth, at: mutation + numberOffset)
            }
        }
    }
}

/// Text with places in it to come back to.
private struct Marked {
    var bytes: [UInt8] = []
    var marks: [Int] = []

    mutating func append(_ text: String, mark: String? = nil) {
        bytes += text.utf8
        guard let mark else { return }
        marks.append(bytes.count)
        bytes += mark.utf8
    }
}
