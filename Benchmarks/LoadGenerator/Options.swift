/// The options of the command line.
struct Options {
    enum Mode: String {
        case new, replay, forwarded
    }

    /// How entities are named.
    enum IDs: String {
        case mapped, device
    }

    static let help = """
        Usage: LoadGenerator [options]

        Pushes creates to a Sluice gateway as fast as it answers, checks every answer, and prints one line
        of key=value pairs. One thread; each connection has one push under way at a time, and so has each device.

          --host HOST             where the gateway listens (127.0.0.1)
          --port PORT             (8080)
          --path PATH             (/v1/mutations)
          --scheme SCHEME         of the tokens (Bearer)
          --connections N         open connections (32)
          --mutations N           mutations in a push (1)
          --mode MODE             new: new pushes; replay: some that were sent before; forwarded: new ones that are
                                  accepted, and later replayed to an upstream (new)
          --type TYPE             the entity type (activity)
          --ids IDS               mapped: each entity has a UUID; device: an integer that its device counts, for a type
                                  with device ids (mapped)
          --contacts TYPE         before the measurement, each device creates as many entities of this type as a push
                                  has mutations, and then each `contact_id` references one of them by its local id;
                                  without this option it is a UUID of no entity
          --body FILE             for other servers: three lines, with the text before the mutations, a mutation, and
                                  the text after them; each 00000000-0000-4000-8000-000000000000 in the second line
                                  becomes a random UUID
          --success TEXT          the text that a correct answer contains once per mutation ("status":"succeeded")
          --status N              the status of a correct answer (200)
          --pool N                pushes sent before a replay begins, from which it then draws (4000)
          --pushes N              the number of pushes, instead of --seconds
          --rate N                new pushes per second, sent on time whether or not earlier ones were answered; each
                                  needs a free connection, so give as many --connections as may wait at once
          --seconds S             how long to measure (5)
          --warm-up S             how long to push before that (1)
          --organizations N       (200)
          --users N               users in each organization (50)
          --jwt-secret SECRET     signs the users' tokens with HS256; LOAD_GENERATOR_JWT_SECRET does so too
          --tokens-file FILE      instead: lines of `organization user token`
          --help                  this text

        Organizations are 00000000-0000-4000-8000-(number), users 00000000-0000-4000-9000-(organization * 1000 + number).
        A user has one device, or several when there are more connections than users; a device belongs to one connection.
        Sequence numbers begin at the time in microseconds, so a later run can continue with the same devices. The same
        applies to device ids, which equal the sequence number of the create.

        With --rate, latencies are those of correct answers only, and begin when a push is due. `goodput` is the rate of
        mutations with a correct answer, and `missed` counts pushes that were due while no connection was free.

        Latencies are in microseconds, from the first byte written to the last byte read. `errors` counts pushes
        without an answer or with a status other than 200 (or 202, if they are forwarded). `wrong` counts pushes of
        that status in which not every mutation has `succeeded`, or in which `replayed` does not fit the mode. The
        first such answer is printed to standard error. `own_cpu_…` is the CPU use of the load generator: a share near
        1 means that it, not the gateway, was the limit.

        Exit status: 0, or 1 when nothing succeeded, or 2 when the options are wrong.

        Example:
          LoadGenerator --jwt-secret "$SLUICE_JWT_SECRET" --connections 32 --mutations 50 --seconds 10
        """

    var host = "127.0.0.1"
    var port = 8080
    var path = "/v1/mutations"
    var connections = 32
    var mutations = 1
    var mode = Mode.new
    var type = "activity"
    var ids = IDs.mapped
    var contacts: String?
    var scheme = "Bearer"
    var body: String?
    var success = #""status":"succeeded""#
    var status = 200
    var pool = 4000
    var pushes: Int?
    /// Pushes per second; nil to send each push when the previous one of its connection is answered.
    var rate: Double?
    var seconds = 5.0
    var warmUp = 1.0
    var organizations = 200
    var users = 50
    var secret: String?
    var tokensFile: String?

    init(_ arguments: [String], secret inherited: String?) throws(Failure) {
        secret = inherited
        var rest = arguments[...]
        while let name = rest.popFirst() {
            guard let value = rest.popFirst() else { throw Failure("\(name): a value is missing, or no such option") }
            try set(name, to: value)
        }
        guard secret != nil || tokensFile != nil else { throw Failure("--jwt-secret or --tokens-file is needed") }
        // The user's number has three digits in the ids.
        guard users < 1000 else { throw Failure("--users is at most 999") }
        // mode `replay` fills its pool during the time in which contacts would be created
        if contacts != nil, mode == .replay { throw Failure("--contacts does not go with --mode replay") }
        if rate != nil, contacts != nil || mode != .new || pushes != nil {
            throw Failure("--rate is for new pushes without --contacts and --pushes")
        }
        if body != nil, contacts != nil || mode != .new { throw Failure("--body is for new pushes without --contacts") }
    }

    private mutating func set(_ name: String, to value: String) throws(Failure) {
        switch name {
        case "--host": host = value
        case "--port": port = try Self.count(name, value)
        case "--path": path = value
        case "--connections": connections = try Self.count(name, value)
        case "--mutations": mutations = try Self.count(name, value)
        case "--mode":
            guard let mode = Mode(rawValue: value) else {
                throw Failure("--mode is new, replay or forwarded, not \(value)")
            }
            self.mode = mode
        case "--type": type = value
        case "--ids":
            guard let ids = IDs(rawValue: value) else { throw Failure("--ids is mapped or device, not \(value)") }
            self.ids = ids
        case "--contacts": contacts = value
        case "--scheme": scheme = value
        case "--body": body = value
        case "--success": success = value
        case "--status": status = try Self.count(name, value)
        case "--pool": pool = try Self.count(name, value)
        case "--pushes": pushes = try Self.count(name, value)
        case "--rate":
            rate = try Self.duration(name, value)
            if rate == 0 { throw Failure("--rate: 0 is not a number above 0") }
        case "--seconds": seconds = try Self.duration(name, value)
        case "--warm-up": warmUp = try Self.duration(name, value)
        case "--organizations": organizations = try Self.count(name, value)
        case "--users": users = try Self.count(name, value)
        case "--jwt-secret": secret = value
        case "--tokens-file": tokensFile = value
        default: throw Failure("\(name): no such option")
        }
    }

    private static func count(_ name: String, _ value: String) throws(Failure) -> Int {
        guard let number = Int(value), number > 0 else { throw Failure("\(name): \(value) is not a number above 0") }
        return number
    }

    private static func duration(_ name: String, _ value: String) throws(Failure) -> Double {
        guard let number = Double(value), number >= 0, number < 1e6 else {
            throw Failure("\(name): \(value) is not a number of seconds, or below a million")
        }
        return number
    }
}
