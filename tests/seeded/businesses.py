"""
Twenty small businesses, what they have done on time, where, and by whom.

Invented; their names, hosts and people are nobody's.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """
    Something that a business has done at each of its places.

    Args:
        name: In the words of the business.
        work: What the action does: data, mail, summary, hook, task.
    """

    name: str
    work: str


@dataclass(frozen=True, slots=True)
class Business:
    """
    A small app.

    Args:
        uid: Of the app.
        zone: IANA name.
        host: Where its mails, data and hooks are; ends in ``.example``.
        places: Sites, lines or markets, each with the same jobs.
        people: How many users it has.
        domains: Names of its data sets.
    """

    uid: str
    name: str
    zone: str
    host: str
    places: tuple[str, ...]
    jobs: tuple[Job, ...]
    domains: tuple[str, ...]
    people: int = 60

    @property
    def jobs_named(self) -> list[str]:
        """What its actions are called, but for those with a story."""
        return [f"{job.name}, {place}" for place in self.places for job in self.jobs]


def _make(
    uid: str,
    name: str,
    zone: str,
    *,
    places: str,
    data: str,
    mail: str,
    rest: str,
    domains: str,
    people: int = 60,
) -> Business:
    """Read a row: lists are separated by commas, *rest* is ``work: name``."""
    jobs = [Job(each, "data") for each in data.split(", ")]
    jobs += [Job(each, "mail") for each in mail.split(", ")]
    for each in rest.split(", "):
        work, _, job = each.partition(": ")
        jobs.append(Job(job, work))
    host = f"{uid.partition('-')[0]}.example"
    return Business(
        uid,
        name,
        zone,
        host,
        tuple(places.split(", ")),
        tuple(jobs),
        tuple(domains.split(", ")),
        people,
    )


BUSINESSES = (
    _make(
        *("atlas-retail", "Atlas Retail", "Europe/Paris"),
        places="Lyon, Lille, Nantes, Toulouse, Rennes, Dijon, Metz, Nice, Tours, Reims, Caen",  # noqa: E501 - a row
        data="Shelf counts, Till takings",
        mail="Opening checklist, Low stock list",
        rest="summary: Store summary, hook: Price labels, task: Loyalty points, "
        "task: Delivery slots, hook: Footfall counters",
        domains="catalogue, stock, stores, takings, suppliers",
        people=140,
    ),
    _make(
        *("bluefin-foods", "Bluefin Foods", "Europe/Madrid"),
        places="Vigo, Cádiz, Bilbao, Málaga, Huelva, Gijón, Palma, Tarragona, Alicante, Ceuta, Almería",  # noqa: E501 - a row
        data="Landing prices, Cold store levels",
        mail="Catch offer, Recall notice drill",
        rest="task: Ice orders, hook: Truck temperatures, task: Allergen sheets, "
        "summary: Market summary, task: Crate returns",
        domains="prices, landings, cold_stores, buyers",
        people=90,
    ),
    _make(
        *("cedar-clinic", "Cedar Clinic", "Europe/London"),
        places="Leeds, York, Hull, Ripon, Selby, Otley, Skipton, Whitby, Malton, Thirsk, Keighley",  # noqa: E501 - a row
        data="Theatre lists, Bed states",
        mail="Vaccination recall, Rota for the week",
        rest="task: Laboratory results, hook: Prescription feed, "
        "summary: Ward summary, task: Waiting times, mail: Test results are in",
        domains="appointments, wards, rota",
        people=320,
    ),
    _make(
        *("delta-energy", "Delta Energy", "Europe/Berlin"),
        places="Leipzig, Dresden, Halle, Erfurt, Gera, Jena, Zwickau, Chemnitz, Görlitz, Weimar, Plauen",  # noqa: E501 - a row
        data="Tariff table",
        mail="Meter reading request, Planned works",
        rest="task: Feed-in bids, hook: Grid frequency report, task: Bill run, "
        "summary: Consumption summary, hook: Balancing notice, task: Deposit refunds",
        domains="meters_north, meters_south, meters_east, meters_west, tariffs, "
        "weather, customers, feeders, outages",
        people=110,
    ),
    _make(
        *("ember-insure", "Ember Insurance", "Europe/Dublin"),
        places="Motor, Home, Travel, Marine, Farm, Pets, Bicycles, Liability, Crops, Machinery, Health",  # noqa: E501 - a row
        data="Claims ledger",
        mail="Renewal letter, Claim update, Missing papers",
        rest="task: Risk scores, hook: Broker feed, summary: Loss summary, "
        "task: Premium run, hook: Fraud check",
        domains="policies, claims, brokers",
        people=160,
    ),
    _make(
        *("fjord-marine", "Fjord Marine", "Europe/Oslo"),
        places="Bergen, Ålesund, Stavanger, Molde, Florø, Bodø, Tromsø, Alta, Narvik, Haugesund, Kristiansund",  # noqa: E501 - a row
        data="Berth plan, Crew papers",
        mail="Weather warning, Arrival notice",
        rest="task: Fuel orders, hook: Pilot booking, summary: Fleet summary, "
        "task: Harbour dues, hook: Lock times",
        domains="tides, berths, vessels, crews",
        people=70,
    ),
    _make(
        *("granite-build", "Granite Build", "America/Denver"),
        places="Boulder, Aspen, Golden, Pueblo, Durango, Salida, Vail, Greeley, Loveland, Montrose, Sterling",  # noqa: E501 - a row
        data="Crane hours, Concrete deliveries",
        mail="Toolbox talk, Permit reminder",
        rest="task: Timesheets, hook: Gate log, summary: Site summary, "
        "task: Subcontractor invoices, hook: Noise monitor",
        domains="sites, crews, deliveries, permits",
        people=85,
    ),
    _make(
        *("harbour-logistics", "Harbour Logistics", "Europe/Paris"),
        places="Le Havre, Marseille, Calais, Brest, Bayonne, Rouen, Dunkerque, Sète, Lorient, Dieppe, Toulon",  # noqa: E501 - a row
        data="Container moves, Lane prices",
        mail="Pick-up notice, Customs papers due",
        rest="task: Trailer checks, hook: Gate bookings, summary: Yard summary, "
        "task: Demurrage run, hook: Carrier status",
        domains="stock, orders, carriers, lanes, returns",
        people=130,
    ),
    _make(
        *("helios-solar", "Helios Solar", "America/New_York"),
        places="Albany, Utica, Ithaca, Elmira, Oswego, Geneva, Auburn, Olean, Corning, Malone, Batavia",  # noqa: E501 - a row
        data="Yield table, Panel faults",
        mail="Yield letter, Cleaning visit",
        rest="task: Grid credits, hook: Inverter firmware, summary: Park summary, "
        "task: Lease payments, hook: Snow alarm",
        domains="inverters, yields, weather, leases",
        people=75,
    ),
    _make(
        *("ironbridge-rail", "Ironbridge Rail", "Europe/London"),
        places="Telford, Shrewsbury, Ludlow, Hereford, Crewe, Stafford, Stoke, Walsall, Dudley, Wrexham, Oswestry",  # noqa: E501 - a row
        data="Track geometry, Delay minutes",
        mail="Engineering works, Season ticket ends",
        rest="task: Crew diagrams, hook: Platform boards, summary: Line summary, "
        "task: Delay repayments, hook: Level crossing log",
        domains="possessions, timetable, stock, stations",
        people=150,
    ),
    _make(
        *("juniper-hotels", "Juniper Hotels", "Europe/Lisbon"),
        places="Porto, Faro, Évora, Braga, Coimbra, Sintra, Lagos, Tavira, Aveiro, Funchal, Óbidos",  # noqa: E501 - a row
        data="Room inventory, Minibar counts",
        mail="Pre-arrival letter, After-stay letter",
        rest="task: Housekeeping plan, hook: Rate channels, summary: Night audit, "
        "task: Invoice run, hook: Key cards",
        domains="rooms, rates, guests, bookings",
        people=120,
    ),
    _make(
        *("kestrel-air", "Kestrel Air", "Europe/Dublin"),
        places="Cork, Shannon, Knock, Kerry, Donegal, Galway, Sligo, Waterford, Belfast, Derry, Dublin",  # noqa: E501 - a row
        data="Flight plans, Fuel uplift",
        mail="Schedule change, Check-in reminder",
        rest="task: Baggage scans, hook: Slot requests, summary: Station summary, "
        "task: Refund run, hook: De-icing orders",
        domains="flights, crews, aircraft, bookings",
        people=180,
    ),
    _make(
        *("lumen-grid", "Lumen Grid", "Australia/Sydney"),
        places="Newcastle, Orange, Dubbo, Bathurst, Tamworth, Armidale, Lismore, Nowra, Goulburn, Wagga, Griffith",  # noqa: E501 - a row
        data="Feeder loads, Lamp faults",
        mail="Outage notice, Reconnection notice",
        rest="task: Crew dispatch, hook: Street lamps, summary: Grid summary, "
        "task: Guarantee payments, hook: Battery dispatch",
        domains="feeders, outages, lamps, customers",
        people=95,
    ),
    _make(
        *("marlow-books", "Marlow Books", "Europe/London"),
        places="Fiction, History, Poetry, Cookery, Travel, Science, Music, Crime, Art, Gardens, Children",  # noqa: E501 - a row
        data="Shelf prices",
        mail="New arrivals, Back in stock, Reading group",
        rest="task: Publisher orders, hook: Web shop, summary: Shop summary, "
        "task: Returns, task: Gift cards",
        domains="titles, stock, orders",
        people=260,
    ),
    _make(
        *("northgate-bank", "Northgate Bank", "America/New_York"),
        places="Boston, Salem, Lowell, Quincy, Malden, Newton, Nashua, Concord, Dover, Bangor, Augusta",  # noqa: E501 - a row
        data="Branch ledger, Cash levels",
        mail="Statement is ready, Card expires",
        rest="task: Standing orders, hook: Clearing file, summary: Branch summary, "
        "task: Interest run, hook: Sanctions check",
        domains="ledger, branches, rates, cards",
        people=200,
    ),
    _make(
        *("opal-cosmetics", "Opal Cosmetics", "Asia/Tokyo"),
        places="Osaka, Kyoto, Kobe, Nagoya, Sapporo, Sendai, Fukuoka, Nara, Niigata, Hakodate, Naha",  # noqa: E501 - a row
        data="Counter sales",
        mail="Sample offer, Refill reminder, Birthday card",
        rest="task: Batch records, hook: Shop windows, summary: Counter summary, "
        "task: Beauty points, hook: Recall register",
        domains="products, counters, sales, batches",
        people=210,
    ),
    _make(
        *("pinewood-schools", "Pinewood Schools", "Europe/Stockholm"),
        places="Uppsala, Örebro, Västerås, Linköping, Umeå, Luleå, Falun, Kalmar, Växjö, Borås, Gävle",  # noqa: E501 - a row
        data="Timetable",
        mail="Parents' evening, Menu of the week, Library returns",
        rest="task: Bus lists, hook: Door codes, summary: Attendance summary, "
        "task: Grade export, task: Substitute plan",
        domains="pupils, timetable, absences",
        people=280,
    ),
    _make(
        *("quarry-metals", "Quarry Metals", "America/Phoenix"),
        places="Globe, Miami, Morenci, Ajo, Bisbee, Superior, Jerome, Clifton, Kearny, Bagdad, Safford",  # noqa: E501 - a row
        data="Copper grades, Truck loads",
        mail="Blasting notice, Shift handover",
        rest="task: Assay orders, hook: Dust sensors, summary: Pit summary, "
        "task: Royalty run, hook: Weighbridge",
        domains="assays, pits, loads",
        people=65,
    ),
    _make(
        *("ridge-outdoor", "Ridge Outdoor", "America/Los_Angeles"),
        places="Tents, Packs, Boots, Ropes, Stoves, Skis, Kayaks, Maps, Lamps, Jackets, Bikes",  # noqa: E501 - a row
        data="Catalogue pages, Repair queue",
        mail="Season letter, Waiting list",
        rest="task: Warranty checks, hook: Shop feed, summary: Range summary, "
        "task: Rental returns, hook: Trail conditions",
        domains="products, rentals, repairs",
        people=150,
    ),
    _make(
        *("saltmarsh-parks", "Saltmarsh Parks", "Pacific/Auckland"),
        places="Napier, Nelson, Picton, Oamaru, Timaru, Wanaka, Taupo, Gisborne, Kaikoura, Akaroa, Russell",  # noqa: E501 - a row
        data="Hut bookings, Visitor counts",
        mail="Track closure, Permit is ready",
        rest="task: Ranger rota, hook: Tide gates, summary: Park summary, "
        "task: Concession fees, hook: Fire danger",
        domains="bookings, huts, tracks, visitors",
        people=100,
    ),
)

#: Whoever has an account somewhere.
FIRST_NAMES = (
    *("Ada", "Amir", "Aoife", "Astrid", "Beatriz", "Bruno", "Chiara", "Dana"),
    *("Elif", "Emil", "Farah", "Felix", "Freya", "Hana", "Hugo", "Ivan"),
    *("Jonas", "Kaito", "Keira", "Lars", "Leila", "Liam", "Lucía", "Maeve", "Marek"),
    *("Mateo", "Mei", "Nadia", "Niamh", "Noah", "Olga", "Omar", "Paul", "Petra"),
    *("Priya", "Rui", "Saoirse", "Sofia", "Tomas", "Ugo", "Vera", "Wendy", "Yara"),
    *("Yuki", "Zoe"),
)
LAST_NAMES = (
    *("Abel", "Amsel", "Bakker", "Berg", "Byrne", "Castro", "Clarke", "Costa"),
    *("Dahl", "Doyle", "Ferrand", "Fischer", "Gallo", "Haas", "Hill", "Ito"),
    *("Jansen", "Keane", "Khan", "Kovac", "Lang", "Lindqvist", "Marchand", "Meyer"),
    *("Moreau", "Mori", "Novak", "Okafor", "Olsen", "Petit", "Prado", "Quinn"),
    *("Rossi", "Sato", "Silva", "Sousa", "Tanaka", "Torres", "Vogel", "Weiss"),
    *("Wright", "Young", "Zeman"),
)
