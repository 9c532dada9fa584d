import Foundation

/// The options of the command line and the environment.
struct Options {
    static let help = """
        Usage: PhoneBenchmark FIGURE --gateway URL [options]

        Measures the phone's library against a gateway, and prints a JSON object of numbers.

          writes              the cost of enqueueing a write, and of draining 10,000
          edits               a pull of 1,000 changes under 1,000 waiting edits
          main                the delay of the observers' main thread while the phone synchronizes
          first-pull          a pull of everything by a phone without data; in a separate process, for its memory

          --gateway URL       the gateway's URL, without /v1
          --rounds N          the number of measurements in turns (20)
          --help              this text

        The token of a user is read from PHONE_TOKEN, that of a colleague from PHONE_OTHER_TOKEN.

        Phones write their files to TMPDIR and leave them there.

        Exit status: 0, or 1 when something went wrong, or 2 when the options are wrong.
        """

    enum Figure: String {
        case writes, edits, main
        case firstPull = "first-pull"
    }

    let figure: Figure
    let gateway: URL
    let rounds: Int
    let token: String
    let otherToken: String

    /// The reason why options are invalid.
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    init(_ arguments: [String], _ environment: [String: String]) throws(Failure) {
        var rest = arguments[...]
        guard let figure = rest.popFirst().flatMap(Figure.init) else { throw Failure(description: "which figure?") }
        var gateway: URL?
        var rounds = 20
        while let name = rest.popFirst() {
            guard let value = rest.popFirst() else { throw Failure(description: "\(name): a value is missing") }
            switch name {
            case "--gateway": gateway = URL(string: value)
            case "--rounds":
                guard let number = Int(value), number > 0 else {
                    throw Failure(description: "\(name): \(value) is not a number, or too small")
                }
                rounds = number
            default: throw Failure(description: "\(name): no such option")
            }
        }
        guard let gateway else { throw Failure(description: "--gateway is needed") }
        guard let token = environment["PHONE_TOKEN"], let other = environment["PHONE_OTHER_TOKEN"] else {
            throw Failure(description: "PHONE_TOKEN and PHONE_OTHER_TOKEN are needed")
        }
        (self.figure, self.gateway, self.rounds) = (figure, gateway, rounds)
        (self.token, self.otherToken) = (token, other)
    }
}
