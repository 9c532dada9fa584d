package import FoundationEssentials
import JSONText
package import SyncModel

/// Decides a poller's requests, interprets the responses, and computes the poller's new position.
///
/// Pure and total: every response of an upstream results in events, an error, or the end of the list.
///
/// A **pass** reads all pages of a list, one after another. An interrupted pass resumes at its last page. The starting
/// point of later passes changes only at the end of a pass, so that an interruption skips no item.
package struct PollPlanner: Sendable {
    /// The maximum number of pages in a pass.
    package static let passPages = 100_000
    /// The maximum number of items in a page.
    package static let pageItems = 10_000
    static let maximumCursorBytes = 4_096

    package let settings: PollerSettings
    package let base: BaseURL
    /// The limits of a push.
    package let limits: IntakeLimits
    /// The fingerprint of the settings. If a stored state has another fingerprint, only its `since` and its notice are
    /// used.
    package let fingerprint: String

    package init(_ settings: PollerSettings, base: BaseURL, limits: IntakeLimits) {
        self.settings = settings
        self.base = base
        self.limits = limits
        fingerprint = PollState.fingerprint(of: settings, base: base)
    }

    /// The interpretation of a response.
    package enum Reading: Sendable {
        /// Nothing is new.
        case unchanged(PollState)
        /// A page. Its events must be submitted before ``state(after:_:in:askedAt:now:)`` is called.
        case page(PollPage)
        case failed(PollFailure)
    }

    /// The next step of a poller after it has read a page.
    package enum Step: Sendable, Hashable {
        /// There are more pages.
        case more(PollState)
        /// The pass is complete.
        case done(PollState)
        /// The poller cannot complete the pass.
        case failed(PollFailure)
    }

    package func state(stored: [UInt8]?) -> PollState {
        PollState(stored: stored, settings, fingerprint: fingerprint)
    }

    package func stored(_ state: PollState) -> [UInt8] { state.json(fingerprint: fingerprint) }

    // MARK: - Asking

    /// Returns the request that continues from a state.
    package func request(_ state: PollState, of organization: UUID, timeout: Duration) -> UpstreamFetch {
        let path = path(state)
        let validators = state.pass == nil && state.validators?.path == path ? state.validators : nil
        return UpstreamFetch(
            organization: organization,
            path: path,
            headers: settings.headers,
            etag: validators?.etag,
            lastModified: validators?.lastModified,
            maximumBytes: limits.bodyBytes,
            timeout: timeout
        )
    }

    private func path(_ state: PollState) -> String {
        if case .link(let path)? = state.pass?.place { return path.string }
        var path = PollPath(settings.path)
        if let since = settings.since, let value = state.since { path.add(since.parameter, value.parameter(since)) }
        if let pageSize = settings.pageSize { path.add(pageSize.parameter, String(pageSize.value)) }
        switch (settings.paging, state.pass?.place) {
        case (.cursor(let parameter, _), .cursor(let cursor)?): path.add(parameter.string, cursor.string)
        case (.page(let parameter, _), .number(let number)?): path.add(parameter.string, String(number))
        case (.page(let parameter, let first), _): path.add(parameter.string, String(first))
        default: break
        }
        return path.text
    }

    // MARK: - Reading

    /// Interprets the response to a request that ``request(_:of:timeout:)`` returned.
    package func reading(
        _ response: FetchedResponse,
        to request: UpstreamFetch,
        in state: PollState
    ) -> Reading {
        switch response.status {
        case 304 where request.isConditional: return .unchanged(state)
        case 200, 203: break
        // some APIs answer 204 for an empty list, and 404 for the page number after the last page
        case _ where response.status == 204 || response.status == 404 && state.isAtNumber:
            return .page(PollPage(events: nil, items: 0, request: request, response: response, end: .last))
        default: return .failed(refusal(response, in: state))
        }
        guard let body = response.body else {
            let detail = "the response is longer than \(limits.bodyBytes) bytes; use page_size to request shorter pages"
            return .failed(PollFailure(detail))
        }
        let tree: JSONTree
        do throws(JSONParseError) {
            tree = try JSONTree(parsing: body.withoutByteOrderMark, limits: JSONLimits(maximumBytes: limits.bodyBytes))
        } catch {
            if let reason = UnusableBody.compression(of: body, encoding: response.contentEncoding) {
                return .failed(PollFailure("the response \(reason)"))
            }
            let type = response.contentType.map { " but \($0)" } ?? ""
            let detail = Problem(jsonError: error, limit: limits.bodyBytes).detail
            return .failed(PollFailure("the response is not JSON\(type): \(detail)"))
        }
        if let defect = tree.root.firstRepeatedMember {
            return .failed(PollFailure("the response has more than one member '\(defect.pointer)'"))
        }
        return read(tree.root, response, request, state)
    }

    private func read(
        _ body: JSONValue,
        _ response: FetchedResponse,
        _ request: UpstreamFetch,
        _ state: PollState
    ) -> Reading {
        let pointer = settings.mapping.events?.pointer ?? ""
        guard let list = body.value(at: pointer), let elements = list.elements else {
            let place = pointer.isEmpty ? "the response is" : "the value at '\(pointer)' of the response (items) is"
            return .failed(PollFailure("\(place) not an array of items"))
        }
        let items = Array(elements.prefix(Self.pageItems + 1))
        var wide = limits
        wide.mutations = Self.pageItems
        let events: MappedEvents
        do throws(Problem) {
            events = try settings.mapping.map(body, id: .content, limits: wide)
        } catch {
            let detail = items.count > Self.pageItems ? "a page has more than \(Self.pageItems) items" : error.detail
            return .failed(PollFailure(detail))
        }
        var page = PollPage(events: events, items: items.count, request: request, response: response, end: .last)
        page.greatest = greatest(of: items, in: body)
        page.end = end(of: body, items.count, response, request, state)
        page.content = items.isEmpty ? nil : RepetitionDetector.digest(list.raw)
        return .page(page)
    }

    private func greatest(of items: [JSONValue], in body: JSONValue) -> SinceValue? {
        guard let since = settings.since else { return nil }
        let pointer = since.from.pointer
        if since.from.isOfBody { return body.value(at: pointer).flatMap { SinceValue($0, since.form) } }
        return items.reduce(nil) { greatest, item in
            guard let value = item.value(at: pointer).flatMap({ SinceValue($0, since.form) }) else { return greatest }
            return value.max(greatest)
        }
    }

    private func end(
        of body: JSONValue,
        _ count: Int,
        _ response: FetchedResponse,
        _ request: UpstreamFetch,
        _ state: PollState
    ) -> PollPage.End {
        switch settings.paging {
        case .none: return .last
        case .link:
            guard let next = LinkHeader.next(in: response.links) else { return .last }
            do throws(PollPath.Refused) {
                return .next(.link(ByteExactString(try PollPath(request.path).following(next, below: base).text)))
            } catch {
                return .broken("the next page \(error.reason), which is not followed")
            }
        case .cursor(_, let pointer):
            guard let value = body.value(at: pointer.string), !value.isNull, value.bool != false else { return .last }
            guard let cursor = value.integerText ?? value.int64.map({ String($0) }) ?? value.string else {
                return .broken("the cursor at '\(pointer)' is neither a string nor an integer")
            }
            if cursor.isEmpty { return .last }
            guard cursor.utf8.count <= Self.maximumCursorBytes, cursor.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f })
            else {
                let form = "\(Self.maximumCursorBytes) bytes, or has control characters"
                return .broken("the cursor at '\(pointer)' is longer than \(form)")
            }
            // some APIs end a list with an empty page that has the same cursor as the request for this page
            if count == 0, state.pass?.place == .cursor(ByteExactString(cursor)) { return .last }
            return .next(.cursor(ByteExactString(cursor)))
        case .page(_, let first):
            // only an empty page ends the list, because many APIs return pages with fewer items than requested
            if count == 0 { return .last }
            let number = if case .number(let number)? = state.pass?.place { number } else { first }
            return .next(.number(number + 1))
        }
    }

    // MARK: - Continuation

    /// Returns the poller's next step and new state. Call it once the events of a page are durable.
    ///
    /// - Parameter askedAt: the time at which the page was requested.
    package func state(
        after page: PollPage,
        _ tally: PollTally,
        in state: PollState,
        askedAt: Timestamp,
        now: Timestamp
    ) -> Step {
        var state = state
        let isWhole = state.pass == nil
        // if no pass is in progress, the place is a placeholder, and the gateway never requests it
        var pass = state.pass ?? PollState.Pass(place: .number(0), beganAt: askedAt)
        pass.pages += 1
        if let found = page.greatest { pass.greatest = isToken ? found : found.max(pass.greatest) }
        pass.items += page.items
        pass.refused += tally.refused
        if let first = tally.firstRefusal {
            let what = pass.refused == 1 ? "an item was rejected" : "\(pass.refused) items were rejected, one of them"
            state.notice = PollState.Notice(at: now, text: "\(what) \(first)")
        }
        switch page.end {
        case .broken(let reason): return .failed(PollFailure(reason, state.restarted))
        case .next(let place):
            if let reason = pass.goesRound(to: place, page) { return .failed(PollFailure(reason, state.restarted)) }
            pass.place = place
            state.validators = nil
            state.pass = pass
            return .more(state)
        case .last:
            end(pass, of: &state, now: now)
            let response = page.response
            let canAskAgain = isWhole && pass.refused == 0 && response.status != 204
            state.validators = canAskAgain ? PollState.Validators(page.request.path, response) : nil
            return .done(state)
        }
    }

    /// Whether the position is a text that each page contains. Such texts have no order.
    private var isToken: Bool { settings.since.map { $0.from.isOfBody && $0.form == .text } ?? false }

    /// Ends a pass. Later passes request only changes after the new position.
    private func end(_ pass: PollState.Pass, of state: inout PollState, now: Timestamp) {
        state.pass = nil
        guard let since = settings.since else { return }
        // the new position is not later than the beginning of the pass: a change during the pass is missing on pages
        // that were already read, so the next pass must include it
        if let greatest = pass.greatest?.noLater(than: pass.beganAt) {
            state.since = isToken ? greatest : greatest.max(state.since)
        } else if pass.items > 0 {
            let text = "no item has a change time at '\(since.from.text)', so all items are read each time"
            state.notice = PollState.Notice(at: now, text: text)
        }
    }

    /// Interprets a response whose status is not a success.
    private func refusal(_ response: FetchedResponse, in state: PollState) -> PollFailure {
        let status = response.status
        var answer = UpstreamResponse(status: status, location: response.location)
        answer.challenge = response.challenge
        let redirect = (300...399).contains(status) && status != 304 ? ", a redirect, which is not followed" : ""
        let place = answer.pointer.map { " (\($0))" } ?? ""
        var failure = PollFailure("the upstream answered \(status)\(redirect)\(place)")
        failure.retryAt = response.retryAt
        if state.pass != nil {
            // the requested page no longer exists, or its cursor has expired, so the pass begins again
            if [400, 404, 410, 422].contains(status) { failure.state = state.restarted }
        } else if status == 410, state.since != nil, settings.since != nil {
            // the upstream no longer has the changes since this position, so the next pass reads everything
            failure.state = state.restarted
            failure.state?.since = nil
        }
        return failure
    }
}

extension PollState {
    /// Whether a pass is in progress, and its next page has a number.
    fileprivate var isAtNumber: Bool { if case .number? = pass?.place { true } else { false } }

    /// Returns the state after a number of consecutive failures; nil if the state stays unchanged.
    ///
    /// After five failures, a pass in progress begins again.
    package func afterFailures(_ count: Int) -> PollState? {
        pass != nil && count >= Self.failuresUntilRestart ? restarted : nil
    }

    private static let failuresUntilRestart = 5

    /// The state without the pass in progress.
    var restarted: PollState {
        var state = self
        state.pass = nil
        state.validators = nil
        return state
    }
}

extension PollState.Pass {
    /// Returns the reason why the list has no end, for example a cycle of pages; nil if there is no such reason.
    fileprivate mutating func goesRound(to place: PollState.Place, _ page: PollPage) -> String? {
        if pages >= PollPlanner.passPages { return "the list did not end after \(pages) pages" }
        // the first page is included, because a link may lead back to it
        if places == nil {
            places = RepetitionDetector(PollState.Place.link(ByteExactString(page.request.path)).digest)
        }
        if places?.repeats(place.digest) == true {
            return "the pages form a cycle: the page after page \(pages) was read before"
        }
        guard let content = page.content else { return nil }
        if contents == nil {
            contents = RepetitionDetector(content)
        } else if contents?.repeats(content) == true {
            return "the pages repeat: page \(pages) has the items of an earlier page"
        }
        return nil
    }
}

extension PollState.Place {
    fileprivate var digest: String {
        var writer = JSONWriter()
        write(to: &writer)
        return RepetitionDetector.digest(writer.bytes)
    }
}

extension PollState.Validators {
    /// Reads the validators of a response; nil if the response has no validators.
    fileprivate init?(_ path: String, _ response: FetchedResponse) {
        guard response.etag != nil || response.lastModified != nil else { return nil }
        self.init(path: path, etag: response.etag, lastModified: response.lastModified)
    }
}
