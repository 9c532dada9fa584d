/// The input of a push, from which the same bytes can be generated again.
struct Push {
    /// The device, as an index into the devices.
    var device: Int
    /// The seed of the push's UUIDs.
    var seed: UInt64
    /// The sequence number of the first mutation.
    var firstNumber: UInt64
    /// Whether the push creates the device's contacts.
    var makesContacts = false
}

/// The body of a push, in which UUIDs and numbers are overwritten in place. So a push needs no allocation and no
/// JSON writer.
struct PushTemplate {
    /// The number of digits. Microseconds since 1970 have sixteen digits until the year 2286.
    private static let numberWidth = 16
    private static let emptyUUID = "00000000-0000-4000-8000-000000000000"
    private static let emptyNumber = String(repeating: "0", count: numberWidth)

    let bytes: [UInt8]
    let mutations: Int

    private let writer = TextWriter()
    private let deviceOffset: Int?
    private let firstOffset: Int
    /// The distance in bytes from one mutation to the next.
    private let stride: Int
    /// The offsets of a mutation's random UUIDs. If the local id is a UUID, it is the first of them.
    private let uuidOffsets: [Int]
    /// The offset of a mutation's sequence number and, with device ids, that of the local id, which is the same number.
    private let numberOffsets: [Int]
    private let contacts: Contacts?

    /// The parts of a mutation that differ if devices have contacts.
    private struct Contacts {
        let ids: Options.IDs
        /// The offset of the digits of `contact_id`.
        let offset: Int
        let typeOffset: Int
        /// The types with their closing quotation marks, padded to the same length.
        let ownType: [UInt8]
        let contactType: [UInt8]
    }

    /// - Parameter createdAt: the mutations' time of creation, in RFC 3339.
    init(_ options: Options, createdAt: String) {
        let (uuid, number) = (Self.emptyUUID, Self.emptyNumber)
        let hasNumbers = options.ids == .device
        let contactIsNumber = hasNumbers && options.contacts != nil
        let typeWidth = max(options.type.utf8.count, options.contacts?.utf8.count ?? 0) + 1
        let ownType = padded(options.type, to: typeWidth)
        // a number is shorter than a UUID in quotation marks, so the text makes all payloads equally long
        let notes = String(repeating: "lorem ipsum ", count: 7) + (contactIsNumber ? "and as much text again" : "")

        var mutation = Marked()
        let id = mutation.append(#"{"id":""#, hole: uuid)
        let type = mutation.append(#"","operation":"create","entity_type":""#, hole: ownType)
        let local = mutation.append(#","local_id":"#, hole: hasNumbers ? number : uuid, isQuoted: !hasNumbers)
        let contact = mutation.append(
            #","endpoint":"/api/v1/activities","payload":{"title":"hello world","contact_id":"#,
            hole: contactIsNumber ? number : uuid,
            isQuoted: !contactIsNumber
        )
        let key = mutation.append(
            #","amount":12.5,"notes":"\#(notes)","tags":["a","b"],"done":false},"idempotency_key":""#,
            hole: uuid
        )
        let sequence = mutation.append(#"","sequence_number":"#, hole: number)
        mutation.append(#","dependency_ids":[],"priority":10,"created_at":"\#(createdAt)"}"#)

        var body = Marked()
        deviceOffset = body.append(#"{"device_id":""#, hole: uuid)
        body.append(#"","mutations":["#)
        firstOffset = body.bytes.count
        stride = mutation.bytes.count + 1
        uuidOffsets = (hasNumbers ? [] : [local]) + [id] + (contactIsNumber ? [] : [contact]) + [key]
        numberOffsets = [sequence] + (hasNumbers ? [local] : []) + (contactIsNumber ? [contact] : [])
        contacts = options.contacts.map { name in
            Contacts(
                ids: options.ids,
                offset: contact,
                typeOffset: type,
                ownType: Array(ownType.utf8),
                contactType: Array(padded(name, to: typeWidth).utf8)
            )
        }

        mutations = options.mutations
        let list = Array(repeating: mutation.bytes, count: mutations).joined(separator: [UInt8(ascii: ",")])
        bytes = body.bytes + list + Array("]}".utf8)
    }

    /// A body for another server; see `--body`.
    init(readFrom path: String, mutations: Int) throws(Failure) {
        let lines = try readFile(path).split(separator: "\n").map { Array($0.utf8) }
        guard lines.count == 3 else { throw Failure("\(path): expected three lines") }
        let hole = Array(Self.emptyUUID.utf8)
        let mutation = lines[1]
        deviceOffset = nil
        firstOffset = lines[0].count
        stride = mutation.count + 1
        uuidOffsets = (0..<max(0, mutation.count - hole.count)).filter { mutation[$0...].starts(with: hole) }
        numberOffsets = []
        contacts = nil
        self.mutations = mutations
        let list = Array(repeating: mutation, count: mutations).joined(separator: [UInt8(ascii: ",")])
        bytes = lines[0] + list + lines[2]
    }

    /// Turns a copy of ``bytes`` into this push.
    func fill(_ body: UnsafeMutablePointer<UInt8>, with push: Push, of device: Device) {
        var random = Random(seed: push.seed)
        if let deviceOffset { writer.writeUUID(device.id.high, device.id.low, at: body + deviceOffset) }
        uuidOffsets.withUnsafeBufferPointer { offsets in
            for index in 0..<mutations {
                let mutation = body + (firstOffset &+ index &* stride)
                for offset in offsets { writer.writeUUID(random.next(), random.next(), at: mutation + offset) }
            }
        }
        numberOffsets.withUnsafeBufferPointer { offsets in
            for index in 0..<mutations {
                let mutation = body + (firstOffset &+ index &* stride)
                let number = push.firstNumber &+ UInt64(truncatingIfNeeded: index)
                for offset in offsets { writer.writeNumber(number, width: Self.numberWidth, at: mutation + offset) }
            }
        }
        if let contacts { fill(body, with: push, of: device, contacts) }
    }

    private func fill(_ body: UnsafeMutablePointer<UInt8>, with push: Push, of device: Device, _ contacts: Contacts) {
        var chooser = Random(seed: ~push.seed)
        let type = push.makesContacts ? contacts.contactType : contacts.ownType
        for index in 0..<mutations {
            let mutation = body + (firstOffset &+ index &* stride)
            (mutation + contacts.typeOffset).update(from: type, count: type.count)
            if let made = device.contacts, !push.makesContacts {
                let chosen = Int.random(in: 0..<mutations, using: &chooser)
                write(contact: chosen, of: made, contacts.ids, at: mutation + contacts.offset)
            }
        }
    }

    /// Writes the local id of an entity from one mutation of a push.
    private func write(contact index: Int, of made: Push, _ ids: Options.IDs, at target: UnsafeMutablePointer<UInt8>) {
        switch ids {
        case .mapped:
            // each UUID took two numbers, and the local id is the first UUID of its mutation
            var random = Random(seed: made.seed, after: index * uuidOffsets.count * 2)
            writer.writeUUID(random.next(), random.next(), at: target)
        case .device:
            let number = made.firstNumber &+ UInt64(truncatingIfNeeded: index)
            writer.writeNumber(number, width: Self.numberWidth, at: target)
        }
    }
}

/// Text with placeholders to fill in later.
private struct Marked {
    var bytes: [UInt8] = []

    mutating func append(_ text: String) { bytes += text.utf8 }

    /// Appends a text, then a placeholder; returns the placeholder's offset.
    mutating func append(_ text: String, hole: String, isQuoted: Bool = false) -> Int {
        bytes += text.utf8
        if isQuoted { bytes.append(UInt8(ascii: "\"")) }
        let offset = bytes.count
        bytes += hole.utf8
        if isQuoted { bytes.append(UInt8(ascii: "\"")) }
        return offset
    }
}

/// A type's name, its closing quotation mark, and spaces.
private func padded(_ type: String, to width: Int) -> String {
    type + "\"" + String(repeating: " ", count: max(0, width - type.utf8.count - 1))
}
