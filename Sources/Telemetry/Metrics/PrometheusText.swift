/// The parts of the text exposition format 0.0.4: escaping, numbers, lines.
enum PrometheusText {
    /// Appends escaped text.
    ///
    /// Backslash and line feed are escaped everywhere, the double quote only in label values.
    static func appendEscaped(_ text: String, quotes: Bool, to bytes: inout [UInt8]) {
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\\"): bytes.append(contentsOf: #"\\"#.utf8)
            case UInt8(ascii: "\n"): bytes.append(contentsOf: #"\n"#.utf8)
            case UInt8(ascii: "\"") where quotes: bytes.append(contentsOf: #"\""#.utf8)
            default: bytes.append(byte)
            }
        }
    }

    /// The text of a number, without a fraction for whole ones.
    ///
    /// So `le="1"` reads as it does from every other exporter.
    static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        if value.magnitude < 9_007_199_254_740_992, value == value.rounded() { return String(Int64(value)) }
        return value.description
    }

    static func appendHeader(_ name: String, kind: MetricKind, help: String, to bytes: inout [UInt8]) {
        bytes.append(contentsOf: "# HELP \(name) ".utf8)
        appendEscaped(help, quotes: false, to: &bytes)
        bytes.append(contentsOf: "\n# TYPE \(name) \(kind.rawValue)\n".utf8)
    }

    static func appendSample(
        _ name: String,
        suffix: String = "",
        labels: LabelSet,
        bound: String? = nil,
        value: String,
        to bytes: inout [UInt8]
    ) {
        bytes.append(contentsOf: name.utf8)
        bytes.append(contentsOf: suffix.utf8)
        if !labels.text.isEmpty || bound != nil {
            bytes.append(UInt8(ascii: "{"))
            bytes.append(contentsOf: labels.text.utf8)
            if let bound {
                if !labels.text.isEmpty { bytes.append(UInt8(ascii: ",")) }
                bytes.append(contentsOf: "le=\"\(bound)\"".utf8)
            }
            bytes.append(UInt8(ascii: "}"))
        }
        bytes.append(UInt8(ascii: " "))
        bytes.append(contentsOf: value.utf8)
        bytes.append(UInt8(ascii: "\n"))
    }
}
