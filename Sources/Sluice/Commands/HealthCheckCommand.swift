import ArgumentParser
import CommandSupport
import Glibc
import JSONText
import SyncHTTP

/// Checks the health of the gateway that runs with the same settings. The exit code is the result.
///
/// The command is intended for container images, which have no curl.
struct HealthCheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "healthcheck",
        abstract: "Check whether the running gateway is alive or ready.",
        discussion: """
            EXAMPLES
              sluice healthcheck
              sluice healthcheck --ready

            For health checks of containers and for load balancers, without an HTTP client. Sends a request to \
            SLUICE_OPERATIONS_ADDRESS: to /livez (is the process running?), or with --ready to /readyz (can it serve \
            requests?). Prints alive or ready; otherwise, standard error has the reason.
            """
                + HelpText.exitCodes(
                    [
                        0: "The gateway responded with 200.",
                        1: "The gateway is not alive or not ready, or did not respond.",
                        78: "The configuration is invalid.",
                    ],
                    usesDatabase: false
                )
    )

    @Flag(help: "Check whether it can serve requests, not only whether it runs.")
    var ready = false

    @Option(help: ArgumentHelp("Maximum time to wait for the response, 1 to 60.", valueName: "seconds"))
    var timeout = 5

    @OptionGroup var options: ConfigurationOptions

    func validate() throws {
        guard (1...60).contains(timeout) else { throw ValidationError("--timeout must be from 1 to 60.") }
    }

    func run() async throws {
        let settings = try await options.load()
        let path = ready ? "/readyz" : "/livez"
        let probe = HealthProbe(address: settings.operationsAddress, path: path, timeout: timeout)
        if let problem = probe.problem() { throw Terminal.failure(problem) }
        Terminal.output(ready ? "ready" : "alive")
    }
}

/// Requests the health of a running gateway from its operations listener.
///
/// The request is so small that it needs no HTTP client.
struct HealthProbe {
    /// The gateway's address; for a wildcard address, the probe connects to this machine.
    let address: ListenAddress
    /// `/livez` or `/readyz`.
    let path: String
    /// The time limit for connecting and for each part of the response, in seconds.
    let timeout: Int

    /// The reason why the gateway is not healthy; nil if it is healthy.
    func problem() -> String? {
        let answer: [UInt8]
        switch exchange() {
        case .success(let bytes): answer = bytes
        case .failure(let reason): return reason.text
        }
        let text = String(decoding: answer, as: UTF8.self)
        guard text.hasPrefix("HTTP/1.1 ") else { return "\(address) is not a gateway" }
        let status = text.dropFirst("HTTP/1.1 ".count).prefix(3)
        if status == "200" { return nil }
        let reasons = reasons(in: answer)
        return reasons.isEmpty ? "\(path) returned \(status)" : reasons.joined(separator: "; ")
    }

    private struct Reason: Error {
        let text: String
    }

    private func reasons(in answer: [UInt8]) -> [String] {
        guard let gap = answer.firstRange(of: Array("\r\n\r\n".utf8)),
            let elements = try? JSONTree(parsing: Array(answer[gap.upperBound...])).root["reasons"]?.elements
        else { return [] }
        return elements.compactMap(\.string)
    }

    private var host: String {
        switch address.host {
        case "0.0.0.0": "127.0.0.1"
        case "::": "::1"
        default: address.host
        }
    }

    private func exchange() -> Result<[UInt8], Reason> {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, String(address.port), &hints, &list)
        defer { if let list { freeaddrinfo(list) } }
        guard code == 0, let first = list?.pointee, let target = first.ai_addr else {
            return .failure(Reason(text: code == 0 ? "no such host" : String(cString: gai_strerror(code))))
        }
        let descriptor = socket(first.ai_family, first.ai_socktype | Int32(SOCK_CLOEXEC.rawValue), first.ai_protocol)
        guard descriptor >= 0 else { return failure("no socket") }
        defer { close(descriptor) }
        var limit = timeval(tv_sec: timeout, tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        // the time limit for sending applies to connecting, too
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, size)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, size)
        guard connect(descriptor, target, first.ai_addrlen) == 0 else { return failure("\(address) cannot be reached") }
        let request = Array("GET \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8)
        guard send(descriptor, request, request.count, Int32(MSG_NOSIGNAL)) == request.count else {
            return failure("\(address) does not accept requests")
        }
        return answer(descriptor)
    }

    private func answer(_ descriptor: Int32) -> Result<[UInt8], Reason> {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4_096)
        while bytes.count < 65_536 {
            let count = recv(descriptor, &chunk, chunk.count, 0)
            if count == 0 { break }
            guard count > 0 else { return failure("\(address) does not respond") }
            bytes += chunk[..<count]
        }
        return .success(bytes)
    }

    private func failure(_ what: String) -> Result<[UInt8], Reason> {
        .failure(Reason(text: "\(what): \(String(cString: strerror(errno)))"))
    }
}
