/*
 * The protocol of allowance.pml as it is meant, and one definition for each way to get it wrong. "spin -DWORD" chooses
 * one; allowance.test.ts says what each must lead to. In the order of the ADR:
 *
 *   SYNC            no mistake: the standby has each transaction before its answer is sent, so no fence is needed
 *   SPLIT           no mistake: the old primary goes on serving whoever still talks to it
 *   NO_FENCE        a failover is not noticed
 *   FENCE_REACHABLE grants begin when the nodes that are connected have reported
 *   FENCE_MEMORY    only a node that remembers the old timeline begins an epoch
 *   FENCE_NUMBERS   only a node that knows a later number than the database begins an epoch
 *   REPORT_BARE     a report says what is free in memory, without what was spent and is not shipped yet
 *   CHARGED_UNHEARD a node that has not reported in this epoch is charged what the database believes that it holds
 *   JOIN_LAGS       a node joins, or comes back from being charged, by a transaction that a failover may forget
 *   FORGETS_LINE    with SPLIT: a node that is killed forgets which timeline it was on
 *   BLIND_SHIP      shipping does not ask whether the position is still the one that it starts from
 *   OWN_POSITION    a node goes by the position that it remembers
 *   BLIND_TAKE      a take that is repeated is granted again
 *   BLIND_BACK      a give-back that is repeated frees again
 *   FREE_REFUSAL    a refused take does not use up its number
 *   RELEASED        what a lost node holds is released, not charged
 *   LATE_JOURNAL    a call is forwarded first, and noted in the journal when it has ended
 *   NO_GRANTS       nothing is ever granted
 *   SEEN_ALL        claims that the whole cap is never granted after a failover: must be refuted
 *   SEEN_CHARGED    claims that nothing is granted after a failover while a charged node is away: must be refuted
 */

/* May anything be granted? */
#ifdef FENCE_REACHABLE
#define HEARD(i) (db[d].row[i].told || !db[d].row[i].member || node[i].at != d)
#else
#define HEARD(i) (db[d].row[i].told || !db[d].row[i].member)
#endif
#ifdef NO_GRANTS
#define OPEN false
#else
#define OPEN (HEARD(0) && HEARD(1))
#endif

/* Is the database another than it was, as far as the node that connects can tell? */
#if defined(NO_FENCE) || defined(SYNC)
#define IS_OTHER false
#define HAS_BEGUN(at_) true
#elif defined(FENCE_MEMORY)
#define IS_OTHER (db[d].epoch != d && ME.seen != d && !ME.blank)
#elif defined(FENCE_NUMBERS)
#define IS_OTHER (db[d].epoch != d && !ME.fresh && ME.number > ROW.number)
#else
#define IS_OTHER (db[d].epoch != d)
#endif
#ifndef HAS_BEGUN
#define HAS_BEGUN(at_) (db[at_].epoch == at_)
#endif

/* Where shipping starts. */
#ifdef BLIND_SHIP
#define FOLLOWS(position_) true
#else
#define FOLLOWS(position_) (ROW.position == (position_))
#endif
#ifdef OWN_POSITION
#define FROM ME.remembered
#define CAN_SHIP (ME.remembered == MINE.position)
#define REMEMBER(position_) ME.remembered = position_
#else
#define FROM ROW.position
#define CAN_SHIP true
#define REMEMBER(position_) skip
#endif

#ifdef REPORT_BARE
#define HOLDS(position_) ME.memory
#else
#define HOLDS(position_) (ME.memory + ME.journal - (position_))
#endif

/* Which transactions are known as repeated, and which are carried out. */
#ifdef BLIND_TAKE
#define IS_REPEATED_TAKE(number_) false
#define IS_NEXT_TAKE(number_) (ROW.number + 1 == (number_) || ROW.number == (number_))
#else
#define IS_REPEATED_TAKE(number_) (ROW.number == (number_))
#define IS_NEXT_TAKE(number_) (ROW.number + 1 == (number_))
#endif
#ifdef BLIND_BACK
#define IS_REPEATED_BACK(number_) false
#define IS_NEXT_BACK(number_) (ROW.number + 1 == (number_) || ROW.number == (number_))
#else
#define IS_REPEATED_BACK(number_) (ROW.number == (number_))
#define IS_NEXT_BACK(number_) (ROW.number + 1 == (number_))
#endif
#ifdef FREE_REFUSAL
#define REFUSE(number_) skip
#else
#define REFUSE(number_) ROW.granted = 0; ROW.number = number_
#endif

/* A transaction that a failover may not forget: it is answered when the standby has it, so not after the freeze. */
#ifdef JOIN_LAGS
#define IS_KEPT(at_) true
#else
#define IS_KEPT(at_) (at_ == 1 || !frozen)
#endif

#ifdef CHARGED_UNHEARD
#define MAY_CHARGE(at_) (HAS_BEGUN(at_) && db[at_].row[n].member)
#else
#define MAY_CHARGE(at_) (HAS_BEGUN(at_) && db[at_].row[n].member && db[at_].row[n].told)
#endif
#ifdef RELEASED
#define CHARGED 0
#else
#define CHARGED ROW.amount
#endif

#ifdef LATE_JOURNAL
#define NOTE ME.owed++
#else
#define NOTE ME.journal++
#endif

#ifdef SYNC
#define IS_SYNC true
#else
#define IS_SYNC false
#endif
#ifdef SPLIT
#define IS_SPLIT true
#else
#define IS_SPLIT false
#endif

/* What a node knows of timelines; kept only where it is asked, so that states do not differ by it for nothing. */
#if defined(SPLIT) || defined(FENCE_MEMORY)
#define SEE(at_) ME.seen = at_; ME.blank = false
#else
#define SEE(at_) skip
#endif
#ifdef FENCE_MEMORY
#define FORGET_LINE ME.blank = true
#elif defined(FORGETS_LINE)
#define FORGET_LINE ME.seen = 0
#else
#define FORGET_LINE skip
#endif

#if defined(BLIND_SHIP) || defined(BLIND_TAKE) || defined(BLIND_BACK)
#define IS_EVER_VOID false
#else
#define IS_EVER_VOID true
#endif
#if defined(NO_FENCE) || defined(FENCE_NUMBERS)
#define IS_COUNT_NEEDED true
#else
#define IS_COUNT_NEEDED false
#endif

#ifdef SEEN_ALL
#define CLAIM_OF_GRANT assert(!(d == 1 && FREE == 0))
#elif defined(SEEN_CHARGED)
#define CLAIM_OF_GRANT assert(!(d == 1 && db[d].row[1].charge > 0))
#else
#define CLAIM_OF_GRANT skip
#endif
