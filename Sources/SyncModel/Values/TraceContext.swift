public import FoundationEssentials

/// A request's position in a distributed trace.
///
/// The context is written as the `traceparent` header of W3C Trace Context, version 00.
public struct TraceContext: Sendable, Hashable {
    /// The id of the whole trace, which is never 0.
    public let traceID: UInt128
    /// The id of the request's own span, which is the parent of further spans. The id is never 0.
    public let spanID: UInt64
    /// Whether the caller may have recorded this trace.
    public let isSampled: Bool

    /// Creates the first span of a new trace, with random ids.
    public init(sampled: Bool = false) {
        self.init(traceID: Self.randomID(), spanID: Self.randomID(), isSampled: sampled)
    }

    /// Creates the trace of an action that no caller's trace includes.
    ///
    /// The trace id is the action's own id. Therefore the trace can be found from the action, and the action from the
    /// trace. The trace is not sampled. The same id always produces the same trace context.
    public init(of id: UUID) {
        let bytes = withUnsafeBytes(of: id.uuid) { Array($0) }
        let traceID = bytes.reduce(UInt128(0)) { $0 << 8 | UInt128($1) }
        let spanID = UInt64(truncatingIfNeeded: traceID)
        // ids that consist of zeros are not allowed
        self.init(
            traceID: traceID == 0 ? .max : traceID,
            spanID: spanID == 0 ? .max : spanID,
            isSampled: false
        )
    }

    /// Reads a `traceparent` header.
    ///
    /// According to the specification, hexadecimal digits must be in lower case, ids must not be 0, and version `ff` is
    /// invalid. If the version is above 00, only the part that version 00 defines is read. A `-` and further text may
    /// follow this part.
    ///
    /// - Returns: nil for an invalid header. In this case, start a new trace, as if there were no header.
    public init?(traceparent: String) {
        var text = traceparent
        guard let parsed = text.withUTF8({ Self.parse(UnsafeRawBufferPointer($0)) }) else { return nil }
        self = parsed
    }

    private init(traceID: UInt128, spanID: UInt64, isSampled: Bool) {
        self.traceID = traceID
        self.spanID = spanID
        self.isSampled = isSampled
    }

    /// A new span of the same trace, with a random id. Use it for a request that this span causes.
    ///
    /// - Parameter sampled: whether the new span is recorded; nil to use the value of this span.
    public func child(sampled: Bool? = nil) -> TraceContext {
        TraceContext(traceID: traceID, spanID: Self.randomID(), isSampled: sampled ?? isSampled)
    }

    /// The value of the header. The value has 55 characters and version 00, and contains only the flag that this
    /// version defines.
    public var traceparent: String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.length)
        bytes.append(contentsOf: "00-".utf8)
        Self.append(traceID, to: &bytes)
        bytes.append(UInt8(ascii: "-"))
        Self.append(spanID, to: &bytes)
        bytes.append(contentsOf: isSampled ? "-01".utf8 : "-00".utf8)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The trace id in logs and headers, as 32 hexadecimal digits in lower case.
    public var traceIDText: String {
        var bytes: [UInt8] = []
        Self.append(traceID, to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The span id in logs and headers, as 16 hexadecimal digits in lower case.
    public var spanIDText: String {
        var bytes: [UInt8] = []
        Self.append(spanID, to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The length of a header of version 00: `00-` trace id `-` span id `-` flags.
    private static let length = 55

    private static func parse(_ bytes: UnsafeRawBufferPointer) -> TraceContext? {
        let dash = UInt8(ascii: "-")
        guard bytes.count >= length, bytes[2] == dash, bytes[35] == dash, bytes[52] == dash,
            let version: UInt8 = number(bytes[0..<2]), version != 0xFF,
            let traceID: UInt128 = number(bytes[3..<35]), traceID != 0,
            let spanID: UInt64 = number(bytes[36..<52]), spanID != 0,
            let flags: UInt8 = number(bytes[53..<55])
        else { return nil }
        if bytes.count > length {
            guard version != 0, bytes[length] == dash else { return nil }
        }
        return TraceContext(traceID: traceID, spanID: spanID, isSampled: flags & 1 == 1)
    }

    private static func number<Number: FixedWidthInteger>(_ digits: Slice<UnsafeRawBufferPointer>) -> Number? {
        var number: Number = 0
        for digit in digits {
            guard let value = value(ofHexDigit: digit) else { return nil }
            number = number << 4 | Number(value)
        }
        return number
    }

    private static func append<Number: FixedWidthInteger>(_ number: Number, to bytes: inout [UInt8]) {
        for shift in stride(from: Number.bitWidth - 4, through: 0, by: -4) {
            bytes.append(hexDigit(UInt8(truncatingIfNeeded: number >> Number(shift)) & 15))
        }
    }

    private static func hexDigit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + (value - 10)
    }

    /// The value of a lower-case hex digit; nil for any other character.
    private static func value(ofHexDigit digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        default: nil
        }
    }

    private static func randomID<Number: FixedWidthInteger & UnsignedInteger>() -> Number {
        Number.random(in: 1...Number.max)
    }
}
