/// The options of the command line.
struct Options {
    static let help = """
        Usage: HTTPClientBaseline --url URL [options]

        Sends POSTs with the HTTP client library that the gateway uses, as fast as they are answered, and prints one line
        of key=value pairs: the upper limit of what a gateway could forward.

          --url URL           the target of the requests
          --connections N     concurrent requests (64)
          --bytes N           the size of a body (590)
          --seconds S         how long to measure (5)
          --warm-up S         how long to send before that (1)
          --help              this text

        Exit status: 0, or 1 when a request failed or was not answered 201, or 2 when the options are wrong.
        """

    var url = ""
    var connections = 64
    var bytes = 590
    var seconds = 5.0
    var warmUp = 1.0

    /// The reason why options are invalid.
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    init(_ arguments: [String]) throws(Failure) {
        var rest = arguments[...]
        while let name = rest.popFirst() {
            guard let value = rest.popFirst() else { throw Failure(description: "\(name): a value is missing") }
            switch name {
            case "--url": url = value
            case "--connections": connections = try Self.number(name, value, Int.init, 1...)
            case "--bytes": bytes = try Self.number(name, value, Int.init, 20...)
            case "--seconds": seconds = try Self.number(name, value, Double.init, 0.1...)
            case "--warm-up": warmUp = try Self.number(name, value, Double.init, 0...)
            default: throw Failure(description: "\(name): no such option")
            }
        }
        guard !url.isEmpty else { throw Failure(description: "--url is needed") }
    }

    private static func number<Number: Comparable>(
        _ name: String,
        _ value: String,
        _ read: (String) -> Number?,
        _ range: PartialRangeFrom<Number>
    ) throws(Failure) -> Number {
        guard let number = read(value), range.contains(number) else {
            throw Failure(description: "\(name): \(value) is not a number, or too small")
        }
        return number
    }
}
